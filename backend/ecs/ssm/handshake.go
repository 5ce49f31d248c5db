package ssm

import (
	"encoding/json"
	"fmt"

	"github.com/burstlet/burstlet/backend/class"
)

// answer is what to reply to a handshake request, and why the session is of no use
// nevertheless.
func answer(request []byte) (response []byte, refusal, err error) {
	var in handshakeRequest
	if err := json.Unmarshal(request, &in); err != nil {
		return nil, nil, fmt.Errorf("decode a handshake request: %w", err)
	}
	out := handshakeResponse{ClientVersion: clientVersion, ProcessedClientActions: []processedAction{}, Errors: []string{}}
	for _, a := range in.RequestedClientActions {
		done := processedAction{ActionType: a.ActionType, ActionStatus: actionSuccess}
		if why := refused(a.ActionType, a.ActionParameters); why != nil {
			refusal = why
			done.ActionStatus, done.Error = actionUnsupported, why.Error()
			out.Errors = append(out.Errors, why.Error())
		}
		out.ProcessedClientActions = append(out.ProcessedClientActions, done)
	}
	if response, err = json.Marshal(out); err != nil {
		return nil, nil, fmt.Errorf("encode a handshake response: %w", err)
	}
	return response, refusal, nil
}

// refused is why an action cannot be done.
func refused(action string, parameters json.RawMessage) error {
	switch action {
	case actionSessionType:
		var p struct{ SessionType string }
		if err := json.Unmarshal(parameters, &p); err != nil {
			return class.Errorf(class.ErrUnsupported, "decode the type of the session: %w", err)
		}
		if p.SessionType != "InteractiveCommands" && p.SessionType != "Standard_Stream" {
			return class.Errorf(class.ErrUnsupported, "the session has the type %q, which has no terminal", p.SessionType)
		}
		return nil
	case actionKMS:
		return class.Errorf(
			class.ErrUnsupported,
			"the cluster wants sessions encrypted with a key of KMS: remove kmsKeyId from its executeCommandConfiguration "+
				"(what burstlet sends is encrypted in any case)",
		)
	default:
		return class.Errorf(class.ErrUnsupported, "the agent wants %q, which this client does not know", action)
	}
}

package simrpc

import (
	"encoding/base64"
	"encoding/json"
	"errors"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/wireerr"
)

// wireError is an error as it travels.
type wireError struct {
	wireerr.Error
	// Unmade is true of an error that backend.Unmade marked.
	Unmade bool `json:",omitempty"`
	// Container and Reason are a backend.ContainerError's.
	Container string `json:",omitempty"`
	Reason    string `json:",omitempty"`
}

func newWireError(err error) wireError {
	w := wireError{Error: *wireerr.New(err), Unmade: backend.IsUnmade(err)}
	var ofContainer *backend.ContainerError
	if errors.As(err, &ofContainer) {
		w.Container, w.Reason = ofContainer.Container, ofContainer.Reason
	}
	return w
}

// header is the error as the value of an HTTP header.
func (w wireError) header() (string, error) {
	text, err := json.Marshal(w)
	return base64.StdEncoding.EncodeToString(text), err
}

// readHeader reads what header wrote.
func readHeader(value string) (w wireError, err error) {
	text, err := base64.StdEncoding.DecodeString(value)
	if err == nil {
		err = json.Unmarshal(text, &w)
	}
	return w, err
}

// err is the error again, of the same class and with the same text.
func (w wireError) err() error {
	err := w.Err()
	if w.Container != "" {
		err = &backend.ContainerError{Container: w.Container, Reason: w.Reason, Err: err}
	}
	if w.Unmade {
		err = backend.Unmade(err)
	}
	return err
}

package simrpc

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/intercept"
	"github.com/burstlet/burstlet/backend/sim/simrpc/listing"
)

// backend lends what the server lends.
func (c *client) backend() backend.Backend {
	b := intercept.Lend(c.agreed.Fields, c.carry)
	for field, lend := range map[string]func(){
		"Events":  func() { b.Events = eventsClient{c} },
		"Exec":    func() { b.Exec = execClient{c} },
		"Attach":  func() { b.Attach = attachClient{c} },
		"Forward": func() { b.Forward = forwardClient{c} },
		"Logs":    func() { b.Logs = logsClient{c} },
		"Dial":    func() { b.Dial = dialClient{c} },
	} {
		if slices.Contains(c.agreed.Fields, field) {
			lend()
		}
	}
	b.Name, b.Check, b.Limits = c.agreed.Name, c.cfg.Check, c.agreed.Limits
	if c.leader != nil {
		b.Confirm = c.leader.Confirm
	}
	b.Run = func(ctx context.Context, _ backend.Permit) error { return c.run(ctx) } // it changes nothing
	return b
}

// carry makes a call of one request and one reply.
func (c *client) carry(ctx context.Context, call *intercept.Call, _ func(context.Context) error) error {
	reply := call.Reply
	switch r := reply.(type) {
	case nil:
		reply = &none{}
	case *[]backend.PodFacts:
		reply = (*listing.Pods)(r)
	case *[]backend.VolumeFacts:
		reply = (*listing.Volumes)(r)
	}
	err := c.invoke(ctx, call.Name, carried(call.Args), reply)
	if err != nil {
		call.Drop()
	}
	return err
}

// carriedReply is a reply as it travels; listings have an encoding of their own.
func carriedReply(reply any) any {
	switch r := reply.(type) {
	case nil:
		return none{}
	case *[]backend.PodFacts:
		return listing.Pods(*r)
	case *[]backend.VolumeFacts:
		return listing.Volumes(*r)
	}
	return reply
}

// carried are arguments as they travel: as JSON, but for those with a pod.
func carried(args []any) []any {
	out := make([]any, 0, len(args)) // none is an empty list
	for _, arg := range args {
		switch a := arg.(type) {
		case *backend.LaunchSpec:
			out = append(out, newLaunchRequest(*a))
		case *backend.ContainerSpec:
			out = append(out, newStartRequest(*a))
		case *backend.VolumeSpec:
			out = append(out, newPlaceRequest(*a))
		case *[]backend.VolumeSpec:
			out = append(out, newRefreshRequest(*a))
		default:
			out = append(out, arg)
		}
	}
	return out
}

// uncarried reads what carried made into args.
func uncarried(parts []json.RawMessage, args []any) error {
	if len(parts) != len(args) {
		return fmt.Errorf("%d arguments, want %d", len(parts), len(args))
	}
	for i, arg := range args {
		var err error
		switch a := arg.(type) {
		case *backend.LaunchSpec:
			*a, err = unwrapped[launchRequest](parts[i])
		case *backend.ContainerSpec:
			*a, err = unwrapped[startRequest](parts[i])
		case *backend.VolumeSpec:
			*a, err = unwrapped[placeRequest](parts[i])
		case *[]backend.VolumeSpec:
			*a, err = unwrapped[refreshRequest](parts[i])
		default:
			err = json.Unmarshal(parts[i], arg)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unwrapped reads an argument that travels wrapped in R.
func unwrapped[R interface{ spec() T }, T any](data []byte) (spec T, err error) {
	var r R
	if err := json.Unmarshal(data, &r); err != nil {
		return spec, err
	}
	return r.spec(), nil
}

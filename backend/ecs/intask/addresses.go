package intask

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/burstlet/burstlet/backend/pause"
)

// Tries to learn the task's addresses: the endpoint may not have them at once.
const (
	addressTries = 5
	addressPause = 500 * time.Millisecond
)

// addresses asks the metadata endpoint and, if that does not say, the network
// interfaces.
func (t Task) addresses(ctx context.Context) (addresses, error) {
	url := t.Env(envMetadata)
	err := errors.New("there is no " + envMetadata)
	for try := 1; url != "" && try <= addressTries; try++ {
		var found addresses
		if found, err = t.askAddresses(ctx, url); err == nil {
			return found, nil
		}
		if err := pause.For(ctx, addressPause); err != nil {
			return nil, err
		}
	}
	if found := ownAddresses(); len(found) > 0 {
		return found, nil
	}
	return nil, fmt.Errorf("learn the address of the task: %w", err)
}

// askAddresses reads those of the first container that has any (ECS developer
// guide, "Task metadata endpoint version 4": each has the task's).
func (t Task) askAddresses(ctx context.Context, url string) (addresses, error) {
	var task struct {
		Containers []struct {
			Networks []struct {
				IPv4Addresses []string
				IPv6Addresses []string
			}
		}
	}
	if err := t.getJSON(ctx, url+"/task", &task); err != nil {
		return nil, err
	}
	for _, c := range task.Containers {
		var v4, v6 addresses
		for _, n := range c.Networks {
			v4, v6 = append(v4, n.IPv4Addresses...), append(v6, n.IPv6Addresses...)
		}
		if all := append(v4, v6...); len(all) > 0 {
			return all, nil
		}
	}
	return nil, errors.New("it does not know one yet")
}

// ownAddresses are those of this network namespace that others can reach.
func ownAddresses() addresses {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var v4, v6 addresses
	for _, a := range all {
		ip, ok := a.(*net.IPNet)
		switch {
		case !ok || !ip.IP.IsGlobalUnicast():
		case ip.IP.To4() != nil:
			v4 = append(v4, ip.IP.String())
		default:
			v6 = append(v6, ip.IP.String())
		}
	}
	return append(v4, v6...)
}

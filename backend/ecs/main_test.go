package ecs

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/ecsconfig"
	"github.com/burstlet/burstlet/backend/ecs/ecstest"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
)

// configOf is the configuration of a node on a test server.
func configOf(s *stub.Server) Config {
	return Config{
		Config: ecsconfig.Config{
			Region: "us-east-1", Cluster: "default", Subnets: []string{"subnet-a", "subnet-b"},
			SecurityGroups: []string{"sg-a"}, NodeIdentity: "cluster-uid/node.example", Settle: 2 * time.Minute,
			Endpoint: stub.Endpoint,
		},
		AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "not-a-secret", HTTPClient: s.Client(),
		May: backend.Always,
	}
}

// open makes a backend, as a new process would.
func open(t *testing.T, cfg Config) backend.Backend {
	t.Helper()
	b, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// virtual runs f in virtual time with a server and a backend on it.
func virtual(t *testing.T, cfg stub.Config, f func(*testing.T, *stub.Server, backend.Backend)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := stub.New(cfg)
		f(t, s, open(t, configOf(s)))
	})
}

var slow = stub.Delays{Provision: 10 * time.Second, Pull: 5 * time.Second, Deprovision: 8 * time.Second}

var podOf, withInit, specOf, resolved = ecstest.Pod, ecstest.WithInit, ecstest.Spec, ecstest.Resolved

var withVolume = ecstest.WithVolume

const canary = ecstest.Canary

var must, wantClass = ecstest.Must, ecstest.WantClass

// only is the one entry of a listing.
func only(t *testing.T, facts []backend.PodFacts, err error) backend.PodFacts {
	t.Helper()
	must(t, err)
	if len(facts) != 1 {
		t.Fatalf("want one entry, have %+v", facts)
	}
	return facts[0]
}

package taskdef

import (
	"github.com/burstlet/burstlet/backend/ecs/ecstest"
)

var podOf, withInit, specOf, resolved = ecstest.Pod, ecstest.WithInit, ecstest.Spec, ecstest.Resolved

var withVolume = ecstest.WithVolume

const canary = ecstest.Canary

var must, wantClass = ecstest.Must, ecstest.WantClass

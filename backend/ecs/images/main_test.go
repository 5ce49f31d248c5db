package images

import "github.com/burstlet/burstlet/backend/ecs/ecstest"

var must = ecstest.Must

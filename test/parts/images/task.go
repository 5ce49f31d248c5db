package images

import (
	"fmt"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TaskRef is the name under which tests have the image of burstlet's in-task
// binary.
const TaskRef = "registry.burstlet.test/burstlet-task:1"

// taskPath is where burstlet looks for its binary in that image.
const taskPath = "burstlet-task"

// Task returns an image of burstlet's in-task binary, a static program at this
// path, and nothing beside it. Its user is that of burstlet's own image, who may
// not do what the program does in tasks.
func Task(program string) (v1.Image, error) {
	if err := checkStatic(program); err != nil {
		return nil, fmt.Errorf("make the image of burstlet-task: %w", err)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("make the image of burstlet-task: %w", err)
	}
	layer, err := Layer(File{Path: taskPath, Mode: 0o755, Content: content})
	if err != nil {
		return nil, err
	}
	return build(layer, v1.Config{User: "65532:65532", Entrypoint: []string{"/" + taskPath}, WorkingDir: "/"})
}

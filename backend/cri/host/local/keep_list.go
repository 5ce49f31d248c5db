package local

import (
	"path/filepath"
	"strconv"
	"strings"
)

// runningContainer is what a listing says of a container that runs. The types of CRI are
// larger than the host helper, so it is read by its fields' numbers (cri-api, api.proto).
type runningContainer struct {
	id, name string
	attempt  uint64
	labels   map[string]string
}

// log is where the runtime writes the container's log.
func (c runningContainer) log(podLogs string) string {
	return filepath.Join(c.podLogs(podLogs), c.name, strconv.FormatUint(c.attempt, 10)+".log")
}

// podLogs is the log directory of the container's pod.
func (c runningContainer) podLogs(all string) string {
	return filepath.Join(all, strings.Join([]string{
		c.labels["io.kubernetes.pod.namespace"], c.labels["io.kubernetes.pod.name"], c.labels["io.kubernetes.pod.uid"],
	}, "_"))
}

// runningContainers reads a ListContainersResponse.
func runningContainers(reply []byte) ([]runningContainer, error) {
	var out []runningContainer
	err := eachField(reply, func(f field) error {
		if f.tag != 1 {
			return nil
		}
		c, runs, err := readContainer(f.bytes)
		if runs {
			out = append(out, c)
		}
		return err
	})
	return out, err
}

// readContainer reads a Container.
func readContainer(message []byte) (c runningContainer, runs bool, err error) {
	c.labels = map[string]string{}
	err = eachField(message, func(f field) error {
		switch f.tag {
		case 1:
			c.id = string(f.bytes)
		case 3: // ContainerMetadata
			return eachField(f.bytes, func(f field) error {
				switch f.tag {
				case 1:
					c.name = string(f.bytes)
				case 2:
					c.attempt = f.number
				}
				return nil
			})
		case 6: // ContainerState; 1 is CONTAINER_RUNNING
			runs = f.number == 1
		case 8: // an entry of the labels
			var key, value string
			err := eachField(f.bytes, func(f field) error {
				if f.tag == 1 {
					key = string(f.bytes)
				} else {
					value = string(f.bytes)
				}
				return nil
			})
			c.labels[key] = value
			return err
		}
		return nil
	})
	return c, runs, err
}

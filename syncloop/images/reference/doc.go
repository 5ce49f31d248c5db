// Package reference reads the names of images as a kubelet does, filling in what they leave out:
// Docker Hub, and the tag latest. It imports nothing of the project.
package reference

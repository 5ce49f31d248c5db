// Package execute carries out what package plan has decided: a [Runner] does the actions
// of one plan on the backend, stage after stage.
//
// It owns the calls of one pod that change something: their deadlines, which of them are
// given up once the pod is to end (run.go), the Events about them and the kubelet's
// reasons for what failed (runner.go), and the images that a start wants, looked up while
// the action before it is under way (image_lookup.go). It remembers nothing between plans:
// the results are the caller's, who records them.
//
// It may import packages plan, admit, images and resolve, and the backend's contract; it
// knows neither the loop nor the API.
package execute

// Package manifests reads static pods: the manifests of a file, of the files of a
// directory, and of a URL (kubelet: PodConfig's file and HTTP sources).
//
//	file, URL ─ read, bounded ─► decode.go ─► defaults.go ─► check.go ─► pods
//
// A static pod is what the API server would make of its manifest, named after the node,
// with a UID that is the hash of its contents: other contents are another pod. It refers to
// nothing in the API, which it may have to do without.
//
// A [Source] reads again when something may have changed. What cannot be read keeps the
// pods that it had; what can be read and is wrong is left out, with an error that names
// the file and the field.
package manifests

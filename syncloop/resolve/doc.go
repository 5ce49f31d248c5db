// Package resolve turns what a pod's spec refers to into bytes. It is pure: its
// inputs are values, and package objectcache, which reads the API, makes them.
//
//	References(pod)          what the pod's Objects must hold (refs.go)
//	Resolve(pod, container)  environment, command, arguments and subpaths as
//	                         literals (env.go, services.go, fields.go, subpath.go)
//	Files(pod, volume)       the contents of configMap, secret, projected and
//	                         downwardAPI volumes (files.go)
//	Hash(container)          what makes it another container (hash.go)
//
// An object that Objects does not hold is not known yet: ErrWaiting. Every other
// error is for the user, in the kubelet's words, and never holds a value.
package resolve

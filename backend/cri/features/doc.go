// Package features finds out what a container runtime and its host can do: a [Runtime]
// refuses, by the name of the field, what a pod asks of them in vain (features.go,
// image_volumes.go), and says which driver of cgroups they use (cgroup_driver.go).
//
// It owns what is known of versions of runtimes and of how containerd words its
// configuration, and remembers the driver once it was told. What a pod may ask for on any
// host is package fields' to say, and what is made of it package convert's.
//
// It may import packages convert, criconfig, host and transport, and the contract.
package features

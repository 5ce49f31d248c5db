// Package volumes decides what is mounted where: it makes of the volumes of a pod
// what a backend places or launches. It is pure: package resolve makes the
// contents, and the caller compares hashes with what is placed.
package volumes

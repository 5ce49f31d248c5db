// Package images builds the container images that tests and the demo run,
// without a registry and without a network: one layer made from Debian's
// static busybox on an empty base.
//
//   - [Busybox] is a small userland: every applet in /bin (which /sbin,
//     /usr/bin and /usr/sbin point to), /tmp, and users root and nobody.
//   - [Pause] holds a sandbox's namespaces open. It shares busybox's layer, so
//     it costs a host nothing but a config.
//   - [Task] is the image of burstlet's in-task binary on an empty base.
//
// [WriteArchive] writes them into a file that "ctr images import" reads; the
// images can as well be pushed to a registry that a test serves. The same
// busybox gives the same digests: times, owners and order are fixed.
package images

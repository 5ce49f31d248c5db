// Command image makes burstlet's container images without a container engine: it
// compiles burstlet and burstlet-task for each platform, puts them into one OCI
// image index, and burstlet-task alone into another, which tasks pull; it writes
// each as an OCI archive and pushes it where it is told to.
//
//	go run ./tools/image --version v1.2.3 --push registry.example/burstlet:v1.2.3
//
// program.go compiles and looks at what came out, layer.go and roots.go make the
// layers, image.go makes the images and their index, archive.go and push.go take
// them to where they are used. The same commit and the same Go give the same
// digest: nothing of the time, the place or the user of a build is in it.
package main

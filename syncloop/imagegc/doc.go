// Package imagegc removes images that no pod of the node needs (kubelet: ImageGCManager): when the
// disk of images fills up, when they have not been used for long, and at once where an eviction or
// a pull wants room. It owns what is known of when images were used, which a new process does not
// inherit. It works on backend.ImageStore's facts and knows no pods, only the names that they want.
package imagegc

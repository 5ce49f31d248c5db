// Package s3 answers as Amazon S3 does for what burstlet asks of a bucket: objects, their
// listing, and how the bucket is set up. It is the part of package test/fakeaws/ecs that
// knows S3, which serves it, authenticates callers and holds its lock.
//
//   - request.go reads a request, in virtual-hosted and path style; signature.go verifies
//     one whose secret key is known.
//   - bucket.go is a bucket with its objects and what it has cost; answer.go the actions;
//     xml.go writes S3's XML.
//
// S3 is strongly consistent ("What is Amazon S3", Amazon S3 data consistency model): what
// was written is read and listed at once.
package s3

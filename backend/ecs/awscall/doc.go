// Package awscall is what the calls to AWS have in common, whichever service answers
// them: errors with their class of package backend and with advice, and waiting for
// AWS's rate limits. It imports package backend and the SDK's error types alone.
package awscall

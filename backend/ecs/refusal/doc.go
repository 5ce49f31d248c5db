// Package refusal judges what AWS refuses in words that nobody knows: it spaces the calls of the
// whole node while none succeeds, and finds a definition at fault only where it is proved to be.
// It is told of calls by those who make them, and makes none.
package refusal

// Package fence lets a remote refuse the changes of a leader that has a successor.
//
// A leader that cannot reach the API server does not see whether another process has
// taken its lease. So the remote keeps a [Record] for each node: how many leaders there
// were, and the last. A leader takes the node there before its first change, while its
// lease is good ([Taker]), and names itself with every change after that; the remote does
// only what the last one asks for. The others are told so ([class.ErrSuperseded]), and
// their terms end.
//
// Taking compares and swaps: a request says which leader it follows. One that was asked
// for while a lease was good, and arrives late because its process was frozen, follows a
// leader that is no longer the last, and changes nothing.
//
// The host helper has this package too: it imports the classes of errors alone.
package fence

// Package intercept states the calls of the backend contract once, and calls a
// function around each of them.
//
// The table (table.go) has a row for every method of every capability of a
// [backend.Backend]: its name, whether it only reads, whether repeating it is
// harmless, and what else decorators go by. [Wrap] puts a [Func] around every call
// of a backend, in the manner of a gRPC unary interceptor; [Lend] makes a backend
// whose calls are nothing but that Func, and [Invoke] makes a call by its name:
// between those two a connection can carry the contract without knowing its calls.
//
// Three kinds of calls need care, and Method.Kind names them. A Stream (exec,
// attach, logs, dialled connections, hints) is one call from its start to what it
// returns; what passes through the streams is not intercepted. Background is Run,
// which lives as long as the backend. Local calls ask no remote and are left alone.
//
// A new capability needs its interface and field in package backend, its row and its
// wrapper here, its backends and its user. A test compares the table with the
// interfaces by reflection, and fails for a method that has no row.
//
// The package imports the contract alone.
package intercept

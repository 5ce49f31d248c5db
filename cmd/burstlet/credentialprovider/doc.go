// Package credentialprovider asks a kubelet's credential provider plugins for the logins of
// images (kubelet: pkg/credentialprovider/plugin). Read reads which plugins there are, in
// the kubelet's own file format; a plugin is a program that is run with a question on its
// standard input and answers on its standard output, and its answers are kept as long as it
// says. The programs run in the process's own container or machine, never on a node's remote.
//
// Service account tokens for plugins (tokenAttributes) are not supported.
package credentialprovider

// Package credentialprovider asks a kubelet's credential provider plugins for the logins of
// images (kubelet: pkg/credentialprovider/plugin). Read reads which plugins there are, in
// the kubelet's own file format; a plugin is a program that is run with a question on its
// standard input and answers on its standard output, and its answers are kept as long as it
// says. The programs run in the process's own container or machine, never on a node's remote.
//
// A plugin with tokenAttributes is asked for the pod that wants the image: with a token of the
// pod's ServiceAccount for the plugin's audience, and with the annotations that it names. What
// it answers is that ServiceAccount's, and is given to no other.
package credentialprovider

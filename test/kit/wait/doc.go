// Package wait is the one way in which tests wait.
//
// [For] and [Holds] poll, for what tells nobody of its changes. [Pod], [Node] and [PodGone] watch
// the API: they see every state that the object is in, also one that lasts a moment,
// and cost the API server one request. [Until] is For outside of tests.
//
// A limit is many times what a step takes on an idle machine. What is waited for is
// looked at once more when the limit has passed: a machine that stood still for a
// while fails no test.
package wait

// Package probe answers on a real account what AWS does not document and burstlet and
// test/fakeaws/ecs assume: it runs a few tiny tasks, compares what it sees with what is
// assumed, and removes them ("burstlet doctor --try").
//
//   - [Config.Bill] says what that costs, before anything is made.
//   - [Run] removes what a run that was killed left, makes all experiments (experiments.go)
//     at once, and removes what they made, also when its context ends. Each task ends by
//     itself within minutes, so that nothing is billed for long whatever happens.
//   - [Result] is what was seen, without ids, accounts and ARNs; WriteTable prints it. A
//     test server takes its JSON as timing and behaviour (test/cmd/ecs --observed).
package probe

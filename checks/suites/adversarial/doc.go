// Package adversarial holds the attacks on the sandbox: a table of what a hostile submission or compiler does, of what must
// come of it, and of where the attack comes from. The suite runs in the guest, against the sandbox itself, and says after
// every container that the host is what it was.
//
// There are three kinds of rows:
//
//   - probes: things that must be refused, tried one after the other in one container, each in a process of its own
//     (probes_*_test.go). Each is tried outside of a sandbox too, as root, where it must come out otherwise: a probe that
//     cannot succeed proves nothing;
//   - runs: what kills, floods, lasts or survives has a container of its own (runs_test.go);
//   - builds: attacks on compilers and on what is collected from them (builds_test.go).
//
// The attacking program is testdata/programs/attack.c. The tables are checked without a guest.
package adversarial

// Package suite is the suite of the daemon as a whole: the real process, with real containers, against a reference
// server in the test's own process, in the guest (spec/protocol.md 9.5, 11).
//
// What needs no container is tested in services/internal/runner with a clock that waits for nothing. Here is what does: a
// process that is killed at every stage of a job, a Docker that is restarted, an image that is removed, a full disk, a clock
// that is set, a token that is forgotten, two daemons on one machine, and every connection that the daemon opens.
package suite

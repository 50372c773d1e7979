// Package judging drives the evalhost command from outside, as a problem author or an operator would, on a real host
// with real containers: what it judges, what it refuses, how it ends when the machine fails it, and that it leaves the
// machine as it was.
//
// The tests carry the build tag "guest" and run as root inside the guest. EVALHOST_BIN names the command; the packages
// are written by the tests. Containers are slow there, so programs are small C, packages have as few tests as the case
// needs, and no expectation depends on absolute speed.
package judging

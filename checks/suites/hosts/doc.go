// Package hosts runs on every kind of host the guest can be booted as, one variant after the other: one that judges must be
// found fit, confine what it runs, and let nothing out; one that is broken must say what is wrong and how to mend it, and
// must never give a verdict. On such a host it needs a boot and a few seconds, not a container.
//
// The tests carry the build tag "guest" and run as root inside the guest; EVALHOST_TEST_VARIANT names the variant. The words
// that an operator reads on a broken host are kept in testdata and printed in docs/operator.md.
package hosts

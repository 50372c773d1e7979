// Package nix holds the tests of the flake. The host it declares cannot be built where no binary cache is reachable, but
// it can be evaluated, and everything that does not need a build is checked on the result.
//
// Evaluation needs EVALHOST_NIXEVAL, a directory with eval.sh and nix.sh, and the source trees these name in the
// environment. Without it the tests that evaluate are skipped and say so; those of the scripts, the lock and the style
// always run.
package nix

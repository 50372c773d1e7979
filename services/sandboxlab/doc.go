// Package sandboxlab is the door through which the suites in checks/ reach the sandbox: with the build tag "guest" it
// names what they use, and adds nothing to it. Without the tag it is empty, so that no program that is shipped can have
// it in it.
package sandboxlab

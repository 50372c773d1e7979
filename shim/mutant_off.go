//go:build !mutants

package main

// off says whether a control is switched off. Never, in this build; a build with the tag "mutants" is for showing which
// test notices that a control is gone (make mutants), and is never shipped.
func off(string) bool { return false }

// Package problem turns what a problem author hands in, a zip or a directory, into a Problem: the limits, groups, tests
// and programs that judging needs (spec/judging.md sections 1, 2.3 and 2.6).
//
// A package is semi-trusted and its archive is treated as hostile. Nothing in this package ever yields a verdict: what
// is wrong with a package is an *Error, and an *Error is always an infrastructure failure. Whatever is refused
// leaves nothing behind.
//
// The way through the package:
//
//	archive or directory --UnpackPackage--> a tree of regular files --Load--> Config --ApplyOverlay--> Config --census--> Problem
//
// Open does all of it. Load alone serves a tree that a cache unpacked earlier.
package problem

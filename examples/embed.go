// Package examples holds the example packages, so that `evalhost init` can write them where there is no check-out.
package examples

import "embed"

// Files is this directory: a package of problems is a directory at its root.
//
//go:embed divisors guess pair tilings vowels
var Files embed.FS

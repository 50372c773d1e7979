// Package config reads the settings of both programs from their environment (spec/protocol.md section 8; decisions 21).
//
// There is one table of keys (keys.go) and one way through it (Read): the daemon and the local command each take the keys
// that are theirs. Reading is strict and pure. Strict: an unknown key, a removed one and a malformed value are refused, each
// with the key, the value and what was expected, all of them at once. Pure: no file, no network and no clock is touched, so
// that a host can be refused while it is built.
//
//	settings, warnings, err := config.Read(config.Daemon, os.Environ(), config.Facts{Hostname: …})
//	settings.WriteEffective(os.Stdout)  // evalhost-runner --print-config
//	config.WriteExample(w)              // .env.example, which a test holds equal to the table
//
// An empty value counts as unset everywhere, after white space around it is dropped. No setting is a secret; what looks
// like a password inside of an address is never shown.
package config

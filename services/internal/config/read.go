package config

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/protocol"
)

// Refusal is one setting that cannot be used.
type Refusal struct {
	Key   string
	Value string // as people may see it; empty where the key itself is refused
	Why   string // what was expected, or what to use instead
}

func (r *Refusal) Error() string {
	if r.Value == "" {
		return r.Key + " " + r.Why
	}
	return fmt.Sprintf("%s is %q; %s", r.Key, r.Value, r.Why)
}

// Refusals is everything that is wrong with an environment, in the order of the keys. It is the only error of Read.
type Refusals []*Refusal

func (r Refusals) Error() string {
	lines := make([]string, len(r))
	for i, refusal := range r {
		lines[i] = refusal.Error()
	}
	return strings.Join(lines, "\n")
}

// Read reads a program's settings from an environment of KEY=value entries. Warnings are in the order of the keys. An error
// is of type Refusals; then the settings are zero and nothing may be started with them. Nothing but the arguments decides.
func Read(program Program, environment []string, facts Facts) (Settings, []Warning, error) {
	r := reading{program: program, given: map[string]string{}}
	for _, entry := range environment {
		k, value, _ := strings.Cut(entry, "=")
		if before, twice := r.given[k]; twice && before != strings.TrimSpace(value) && ours(k) {
			r.refuse(k, "", "is set twice, to different values")
		}
		r.given[k] = strings.TrimSpace(value)
	}
	s := Settings{References: map[string]string{}, Languages: langimages.Default()}
	rows := table()
	for _, row := range rows {
		if row.readers&program != 0 {
			s.entries = append(s.entries, r.take(&s, row, facts))
		}
	}
	for i, row := range slices.DeleteFunc(slices.Clone(rows), func(row key) bool { return row.readers&program == 0 }) {
		s.entries[i].Value = shown(row.show(s))
	}
	r.strangers(rows)
	if program == Daemon {
		r.settle(&s)
	}
	slices.SortStableFunc(r.refused, func(a, b *Refusal) int { return strings.Compare(a.Key, b.Key) })
	slices.SortStableFunc(r.warned, func(a, b Warning) int { return cmp.Compare(a.Key, b.Key) })
	if len(r.refused) > 0 {
		return Settings{}, r.warned, r.refused
	}
	return s, r.warned, nil
}

// reading is one pass through the table.
type reading struct {
	program Program
	given   map[string]string // trimmed
	refused Refusals
	warned  []Warning
}

func (r *reading) refuse(key, value, why string) {
	r.refused = append(r.refused, &Refusal{key, shown(value), why})
}

func (r *reading) warn(key, format string, args ...any) {
	r.warned = append(r.warned, Warning{key, masked(fmt.Sprintf(format, args...))})
}

// take reads one key, under its present name or an earlier one.
func (r *reading) take(s *Settings, row key, facts Facts) Entry {
	name, value, from := row.name, r.given[row.name], FromEnvironment
	for _, old := range row.old {
		switch {
		case r.given[old] == "":
		case value == "":
			name, value, from = old, r.given[old], Origin("environment, as "+old)
			r.warn(old, "is an earlier name; call it %s", row.name)
		default:
			r.warn(old, "is an earlier name of %s, which is set too and wins", row.name)
		}
	}
	if value == "" {
		value, from = row.initial(r.program, facts)
	}
	entry := Entry{Key: row.name, From: from}
	if value == "" {
		if row.required {
			r.refuse(row.name, "", "is not set; expected "+row.example+" or the like")
		}
		return entry
	}
	warning, err := row.read(s, value)
	if err != nil {
		r.refuse(name, value, err.Error())
	} else if warning != "" {
		r.warn(name, "%s", warning)
	}
	return entry
}

// strangers judges every key that is in the environment and was not taken.
func (r *reading) strangers(rows []key) {
	known := map[string]Program{}
	for _, row := range rows {
		for _, name := range append([]string{row.name}, row.old...) {
			known[name] = row.readers
		}
	}
	for name, value := range r.given {
		readers, isKnown := known[name]
		replacement, isRemoved := removed[name]
		_, isMirror := mirrors[name]
		switch {
		case !ours(name), readers&r.program != 0:
		case r.program == Command && (isKnown || isRemoved || isMirror || !strict(name)):
			// The daemon's, and read strictly there.
		case isKnown && value != "":
			r.refuse(name, "", "is a setting of the local command, not of the daemon; set AJ_Work__Path")
		case isKnown, isMirror:
		case isRemoved && value != "":
			r.refuse(name, value, "it means nothing here; "+replacement)
		case isRemoved:
		default:
			r.refuse(name, "", "is no setting of this program"+likely(name, rows, r.program))
		}
	}
}

// ours reports whether a key claims to be a setting of this project or of the contract.
func ours(name string) bool {
	upper := strings.ToUpper(name)
	if !strings.HasPrefix(upper, "AJ_") && !strings.HasPrefix(upper, "EVALHOST_") {
		return false
	}
	return !slices.ContainsFunc(ignored, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// strict reports whether the local command must know a key.
func strict(name string) bool {
	upper := strings.ToUpper(name)
	return strings.HasPrefix(upper, "EVALHOST_") || strings.HasPrefix(upper, "AJ_SANDBOX__")
}

// likely says what was probably meant by a name that differs in case or underscores only.
func likely(name string, rows []key, program Program) string {
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "")) }
	for _, row := range rows {
		if row.readers&program != 0 && plain(row.name) == plain(name) {
			return "; did you mean " + row.name + "?"
		}
	}
	return ""
}

// settle judges the daemon's settings against each other.
func (r *reading) settle(s *Settings) {
	if s.PollMax < s.PollMin {
		r.warn("AJ_Poll__MaxSeconds", "is below AJ_Poll__MinSeconds and is raised to it")
		s.PollMax = s.PollMin
	}
	paths := map[string]string{"AJ_Cache__Path": s.CachePath, "AJ_Work__Path": s.Scratch}
	for name, of := range mirrors {
		value := r.given[name]
		if value == "" {
			continue
		}
		var same Settings
		if _, err := path(func(s *Settings) *string { return &s.KeyPath })(&same, value); err != nil || same.KeyPath != paths[of] {
			r.refuse(name, value, fmt.Sprintf("expected %s, the value of %s, or nothing: Docker runs on this very machine and sees "+
				"the same paths; set %s instead", paths[of], of, of))
		}
	}
	for _, place := range []struct{ key, path string }{
		{"AJ_Runner__KeyPath", s.KeyPath},
		{"AJ_Work__Path", s.Scratch},
		{"EVALHOST_HEALTH_FILE", s.HealthFile},
		{"EVALHOST_CA_FILE", s.CAFile},
		{"EVALHOST_MANIFEST", s.Manifest},
		{"EVALHOST_SHIM_PATH", s.Shim},
	} {
		for key, dir := range paths {
			if place.key != key && place.path != "" && dir != "" && inside(place.path, dir) {
				r.refuse(place.key, place.path, fmt.Sprintf("expected a place outside of %s (%s), below which everything is deleted in time",
					key, dir))
			}
		}
	}
	if s.CachePath != "" && s.Scratch != "" && s.CachePath != s.Scratch && inside(s.CachePath, s.Scratch) {
		r.refuse("AJ_Cache__Path", s.CachePath, fmt.Sprintf("expected a place outside of AJ_Work__Path (%s), below which everything "+
			"is deleted in time", s.Scratch))
	}
	r.proxy(s)
}

// proxy checks and shows what the client of the Server will read.
func (r *reading) proxy(s *Settings) {
	for _, name := range proxies {
		for _, spelt := range []string{name, strings.ToLower(name)} {
			value := r.given[spelt]
			if value == "" {
				continue
			}
			if name != "NO_PROXY" && !strings.Contains(value, "://") {
				value = "http://" + value
			}
			s.entries = append(s.entries, Entry{spelt, shown(value), FromEnvironment})
		}
	}
	server, err := url.Parse(s.BaseURL)
	if err != nil || s.BaseURL == "" {
		return
	}
	if _, err := protocol.ProxyFor(server, func(name string) string { return r.given[name] }); err != nil {
		r.refuse("HTTPS_PROXY", "", "or another proxy variable is malformed: "+err.Error())
	}
}

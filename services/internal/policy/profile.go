// Package policy holds a source to the rules of a contest before anything is built (spec/judging.md section 9). The rules
// are data, compiled into the program; no package and no assignment changes them. They are a courtesy to honest
// participants, who learn early what will not run; what contains a hostile one is the sandbox.
//
// Where the matching departs from the section it follows, and why, is written in docs/decisions/0010-policy-matching.md.
package policy

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"
)

//go:embed standard-io-default.yml
var standardIO []byte

// Profile is a set of rules for a number of languages. It does not change once read and may be used from several places
// at once.
type Profile struct {
	ID      string
	Version int

	matching  matching
	languages map[string]*rules
}

// matching is which parts of a source are looked at, and how much is said about it.
type matching struct {
	stripComments bool
	stripLiterals bool
	reportAll     bool
}

// rules are those of one language. Which of them apply follows from how the language is written.
type rules struct {
	exactHeaders   map[string]bool
	headerPrefixes []string
	groups         []group
	identifiers    map[string][]int // where each stands, counted over all groups
	identifierRule []string         // the name of its group, for each of those places
	imports        map[string]bool
	builtins       map[string]int // where each stands in the list
	builtinNames   []string
	patterns       []pattern
}

type group struct {
	name        string
	identifiers []string
	patterns    []pattern
}

// Default returns the rules for standard-io submissions.
var Default = sync.OnceValues(func() (*Profile, error) { return Parse(standardIO) })

// Parse reads a profile (9.1). Members it does not know are passed over; anything else that is wrong is an error, and an
// error must stop whoever asked: no rules is not a set of rules.
func Parse(data []byte) (*Profile, error) {
	var raw struct {
		Version  int    `yaml:"version"`
		ID       string `yaml:"id"`
		Matching struct {
			StripComments       *switchWord `yaml:"stripComments"`
			StripStringLiterals *switchWord `yaml:"stripStringLiterals"`
			ReportAllMatches    *switchWord `yaml:"reportAllMatches"`
		} `yaml:"matching"`
		Languages map[string]rawRules `yaml:"languages"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	if err := decoder.Decode(&raw); err != nil {
		return nil, fmt.Errorf("policy profile: %w", err)
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("policy profile: a second document follows the first")
	}
	if raw.Version != 1 || raw.ID == "" {
		return nil, fmt.Errorf("policy profile %q: version %d; a profile has an id, and only version 1 is understood", raw.ID, raw.Version)
	}
	profile := &Profile{
		ID:      raw.ID,
		Version: raw.Version,
		matching: matching{
			stripComments: raw.Matching.StripComments.on(),
			stripLiterals: raw.Matching.StripStringLiterals.on(),
			reportAll:     raw.Matching.ReportAllMatches.on(),
		},
		languages: map[string]*rules{},
	}
	if len(raw.Languages) == 0 {
		return nil, fmt.Errorf("policy profile %q: it has no rules for any language", raw.ID)
	}
	for _, language := range slices.Sorted(maps.Keys(raw.Languages)) {
		compiled, err := raw.Languages[language].compile()
		if err == nil {
			err = compiled.serve(language)
		}
		if err != nil {
			return nil, fmt.Errorf("policy profile %q, language %q: %w", raw.ID, language, err)
		}
		profile.languages[language] = compiled
	}
	return profile, nil
}

// rawRules is the section of a language as it is written.
type rawRules struct {
	DeniedHeaders  []string  `yaml:"deniedHeaders"`
	Groups         rawGroups `yaml:"groups"`
	DeniedImports  []string  `yaml:"deniedImports"`
	DeniedBuiltins []string  `yaml:"deniedBuiltins"`
	DeniedPatterns []string  `yaml:"deniedPatterns"`
}

type rawGroup struct {
	Name        string      `yaml:"name"`
	Default     *switchWord `yaml:"default"`
	Identifiers []string    `yaml:"identifiers"`
	Patterns    []string    `yaml:"patterns"`
}

// rawGroups keeps the order in which groups are written: it is the order of the report.
type rawGroups []rawGroup

// UnmarshalYAML reads the groups once for their order and once for what is in them.
func (g *rawGroups) UnmarshalYAML(unmarshal func(any) error) error {
	var order yaml.MapSlice
	if err := unmarshal(&order); err != nil {
		return err
	}
	var contents map[string]rawGroup
	if err := unmarshal(&contents); err != nil {
		return err
	}
	for _, item := range order {
		*g = append(*g, contents[fmt.Sprint(item.Key)])
	}
	return nil
}

// switchWord is a switch as YAML has been written over the years: on, yes and true, or off, no and false.
type switchWord bool

// UnmarshalYAML refuses every other word.
func (s *switchWord) UnmarshalYAML(unmarshal func(any) error) error {
	var word any
	if err := unmarshal(&word); err != nil {
		return err
	}
	switch word {
	case true, "on", "yes", "true":
		*s = true
	case false, "off", "no", "false":
		*s = false
	default:
		return fmt.Errorf("%v is not a switch: write on, yes or true, or off, no or false", word)
	}
	return nil
}

// on is what an absent switch says.
func (s *switchWord) on() bool { return s == nil || bool(*s) }

func (raw rawRules) compile() (*rules, error) {
	r := &rules{exactHeaders: map[string]bool{}, identifiers: map[string][]int{}, imports: map[string]bool{}, builtins: map[string]int{}}
	for _, name := range raw.DeniedHeaders {
		prefix, open := strings.CutSuffix(name, "*")
		if prefix == "" || strings.ContainsAny(prefix, "*<>\" \n") {
			return nil, fmt.Errorf("%q is neither the name of a header nor the beginning of one and a star", name)
		}
		if open {
			r.headerPrefixes = append(r.headerPrefixes, prefix)
		} else {
			r.exactHeaders[name] = true
		}
	}
	for _, group := range raw.Groups {
		if group.Name == "" {
			return nil, errors.New("a group has no name to show")
		}
		compiled, err := group.compile()
		if err != nil {
			return nil, fmt.Errorf("group %q: %w", group.Name, err)
		}
		if !group.Default.on() {
			continue
		}
		for _, identifier := range compiled.identifiers {
			r.identifiers[identifier] = append(r.identifiers[identifier], len(r.identifierRule))
			r.identifierRule = append(r.identifierRule, group.Name)
		}
		r.groups = append(r.groups, compiled)
	}
	for _, module := range raw.DeniedImports {
		if !isWholeWord(module) {
			return nil, fmt.Errorf("%q is not the name of a module at the top", module)
		}
		r.imports[module] = true
	}
	for _, name := range raw.DeniedBuiltins {
		if _, twice := r.builtins[name]; twice || !isWholeWord(name) {
			return nil, fmt.Errorf("%q is not the name of a builtin, or is listed twice", name)
		}
		r.builtins[name] = len(r.builtinNames)
		r.builtinNames = append(r.builtinNames, name)
	}
	var err error
	r.patterns, err = compilePatterns(raw.DeniedPatterns)
	return r, err
}

func (raw rawGroup) compile() (group, error) {
	for _, identifier := range raw.Identifiers {
		if !isWholeWord(identifier) {
			return group{}, fmt.Errorf("%q is not an identifier", identifier)
		}
	}
	patterns, err := compilePatterns(raw.Patterns)
	return group{name: raw.Name, identifiers: raw.Identifiers, patterns: patterns}, err
}

func (r *rules) deniedHeader(name []byte) bool {
	if r.exactHeaders[string(name)] {
		return true
	}
	return slices.ContainsFunc(r.headerPrefixes, func(prefix string) bool { return bytes.HasPrefix(name, []byte(prefix)) })
}

// serve refuses a section of a language that is checked here and has nothing to check it by.
func (r *rules) serve(language string) error {
	switch writtenLike[language] {
	case likeC:
		if len(r.exactHeaders)+len(r.headerPrefixes)+len(r.groups) == 0 {
			return errors.New("it has neither headers nor groups, so it would deny nothing")
		}
	case likePython:
		if len(r.imports)+len(r.builtins)+len(r.patterns) == 0 {
			return errors.New("it has neither imports nor builtins nor patterns, so it would deny nothing")
		}
	}
	return nil
}

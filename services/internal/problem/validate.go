package problem

import "fmt"

// maxDeclaredTests is one test a letter.
const maxDeclaredTests = 26

// validate applies rows 4 to 13 of spec/judging.md 1.6, in that order, and returns the declared type.
func (d *document) validate(expected Type) (Type, error) {
	declared, at, err := d.declaredType()
	if err != nil {
		return "", err
	}
	if expected == "" {
		if !declared.Known() {
			return "", at.fault(CodeTypeUnknown, "type", "expected %s or %s, found %s", StandardIO, OutputOnly, shown(string(declared)))
		}
		expected = declared
	}
	if judge := d.judge(); judge != nil && expected != StandardIO {
		return "", judge.at.fault(CodeJudgeNotAllowed, judge.key, "a problem of type %s has no checker and no interactor", expected)
	}
	if declared != expected {
		return "", at.fault(CodeTypeUnknown, "type", "expected %s, found %s", expected, shown(string(declared)))
	}
	for _, check := range []func() error{
		d.limits.notZero, d.checkGroups, d.checkOverrides, d.checkPaths, d.checkDeclaredTests, d.checkOneJudge,
	} {
		if err := check(); err != nil {
			return "", err
		}
	}
	return declared, nil
}

// declaredType reads type, or joins the legacy pair.
func (d *document) declaredType() (Type, position, error) {
	switch {
	case d.typ != nil:
		return Type(d.typ.text), d.typ.at, nil
	case d.hasLegacy:
		return Type(d.format + "@" + d.version), d.at, nil
	}
	return "", d.at, d.at.fault(CodeTypeAbsent, "type", "missing; expected %s or %s", StandardIO, OutputOnly)
}

// judge returns the declared judging program, if any.
func (d *document) judge() *writtenSource {
	if d.checker != nil {
		return d.checker
	}
	return d.interactor
}

func (l writtenLimits) notZero() error {
	for _, limit := range []written{l.time, l.memory} {
		if limit.set && limit.value == 0 {
			return limit.at.fault(CodeLimitZero, limit.key, "is 0; expected a limit of at least 1")
		}
	}
	return nil
}

func (d *document) checkGroups() error {
	if len(d.groups) == 0 {
		return d.groupsAt.fault(CodeGroupsEmpty, "groups", "is empty; expected at least one group")
	}
	seen := map[uint32]bool{}
	for _, g := range d.groups {
		if seen[g.number] {
			return g.at.fault(CodeGroupDuplicate, join(g.key, "group"), "group %d occurs twice", g.number)
		}
		seen[g.number] = true
		if err := g.limits.notZero(); err != nil {
			return err
		}
	}
	return nil
}

func (d *document) checkOverrides() error {
	for _, o := range d.overrides {
		if err := o.limits.notZero(); err != nil {
			return err
		}
	}
	return nil
}

func (d *document) checkPaths() error {
	var sources []*writtenSource
	for _, s := range []*writtenSource{d.checker, d.interactor} {
		if s != nil {
			sources = append(sources, s)
		}
	}
	for i := range d.models {
		sources = append(sources, &d.models[i])
	}
	for _, s := range sources {
		clean, err := cleanName(s.path)
		if err != nil {
			return s.at.fault(CodePath, s.key, "%s: %v", shown(s.path), err)
		}
		s.path = clean
	}
	return nil
}

func (d *document) checkDeclaredTests() error {
	for _, g := range d.groups {
		if !g.tests.set {
			continue
		}
		var fault string
		switch {
		case d.interactor == nil:
			fault = "only a package with an interactor can declare tests without files"
		case g.tests.value == 0:
			fault = "is 0; expected 1 to 26, or no such member"
		case g.tests.value > maxDeclaredTests:
			fault = fmt.Sprintf("is %d; expected 1 to %d, one test a letter", g.tests.value, maxDeclaredTests)
		default:
			continue
		}
		return g.tests.at.fault(CodeTestsCount, g.tests.key, "%s", fault)
	}
	return nil
}

func (d *document) checkOneJudge() error {
	if d.checker != nil && d.interactor != nil {
		return d.interactor.at.fault(CodeJudgeBoth, "interactor", "a package has a checker or an interactor, not both")
	}
	return nil
}

// config converts what has been validated.
func (d *document) config() *Config {
	base := d.limits.partial()
	c := &Config{
		Base:                  Limits(base),
		OverrideLimits:        map[string]PartialLimits{},
		Languages:             d.languages,
		Checker:               d.checker.source(),
		Interactor:            d.interactor.source(),
		Calibration:           d.calibration,
		ExtraCompilationFiles: d.extra,
	}
	for _, o := range d.overrides {
		c.OverrideLimits[o.name] = o.limits.partial()
	}
	for _, g := range d.groups {
		c.Groups = append(c.Groups, Group{
			Number: g.number, Points: g.points, Examples: g.examples,
			Limits: g.limits.partial(), Declared: int(g.tests.value),
		})
	}
	for i := range d.models {
		c.ModelSolutions = append(c.ModelSolutions, *d.models[i].source())
	}
	return c
}

func (l writtenLimits) partial() PartialLimits {
	return PartialLimits{Time: millis(l.time.value), Memory: bytesOf(l.memory.value)}
}

func (s *writtenSource) source() *Source {
	if s == nil {
		return nil
	}
	return &Source{Path: s.path, Language: s.language}
}

package policy

// writing is how a family of languages is written, which decides what is a comment, what is a literal and which rules
// apply.
type writing int

const (
	unknown writing = iota
	likeC
	likePython
)

// writtenLike says it for each family that is checked. A profile may carry rules for others; nothing applies those.
var writtenLike = map[string]writing{"c": likeC, "cpp": likeC, "python": likePython}

// Check holds a source to the rules of a toolchain, given by what it is looked up by: its family and then its id, least
// specific first. The rules under the most specific name count, alone. The source need not be text.
func (p *Profile) Check(keys []string, source []byte) Report {
	report := Report{Unchecked: true}
	if len(keys) == 0 {
		return report
	}
	for i := len(keys) - 1; i >= 0; i-- {
		r, ok := p.languages[keys[i]]
		if !ok {
			continue
		}
		switch writtenLike[keys[0]] {
		case likeC:
			report = r.checkC(source, p.matching)
		case likePython:
			report = r.checkPython(source, p.matching)
		}
		break
	}
	if !p.matching.reportAll && report.Total > 1 {
		report.Violations, report.Total = report.Violations[:1], 1
	}
	return report
}

package problem

import "math"

// document is a configuration as it was written: the schema of spec/judging.md 1.5 with every value's presence and place.
type document struct {
	at         position
	typ        *node
	format     string
	version    string
	hasLegacy  bool
	limits     writtenLimits
	overrides  []writtenOverride
	languages  []string
	groupsAt   position
	groups     []writtenGroup
	checker    *writtenSource
	interactor *writtenSource
	models     []writtenSource
	extra      []string

	calibration Calibration
}

// written is a whole number that may be absent.
type written struct {
	set   bool
	value uint64
	at    position
	key   string
}

type writtenLimits struct{ time, memory written }

type writtenOverride struct {
	name   string
	limits writtenLimits
}

type writtenGroup struct {
	at             position
	key            string
	number, points uint32
	examples       bool
	limits         writtenLimits
	tests          written
}

type writtenSource struct {
	key      string
	at       position
	path     string
	language string
}

const limitsWanted = "an object with timeMs and memoryBytes"

var rootMembers = []string{
	"type", "format", "version", "limits", "overrideLimits", "languages", "groups", "checker", "interactor",
	"modelSolution", "modelSolutions", "calibration", "extraCompilationFiles",
}

// decodeDocument applies the schema: row 3 of spec/judging.md 1.6.
func decodeDocument(root *node) (*document, error) {
	if err := root.object("", rootMembers...); err != nil {
		return nil, err
	}
	d := &document{
		at:          root.at,
		calibration: Calibration{Time: DefaultTimeRule, Memory: DefaultMemoryRule},
	}
	for _, read := range []func(*node) error{
		d.readType, d.readLimits, d.readOverrides, d.readLanguages, d.readGroups, d.readPrograms, d.readCalibration,
	} {
		if err := read(root); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (d *document) readType(root *node) error {
	if n := root.member("type"); n != nil {
		if _, err := n.textValue("type"); err != nil {
			return err
		}
		d.typ = n
	}
	format, version := root.member("format"), root.member("version")
	var err error
	if format != nil {
		if d.format, err = format.textValue("format"); err != nil {
			return err
		}
	}
	if version != nil {
		if _, err := version.unsigned("version", math.MaxUint32); err != nil {
			return err
		}
		d.version = version.text
	}
	d.hasLegacy = format != nil && version != nil
	return nil
}

func (d *document) readLimits(root *node) error {
	n, err := root.required("", "limits", limitsWanted)
	if err != nil {
		return err
	}
	if err := n.object("limits", "timeMs", "memoryBytes"); err != nil {
		return err
	}
	for _, name := range []string{"timeMs", "memoryBytes"} {
		value, err := n.required("limits", name, "a whole number")
		if err != nil {
			return err
		}
		if value.kind == nullKind {
			return value.wrongKind(join("limits", name), "a whole number")
		}
	}
	d.limits, err = partialLimits(n, "limits")
	return err
}

func (d *document) readOverrides(root *node) error {
	n := root.member("overrideLimits")
	if n == nil {
		return nil
	}
	if n.kind != objectKind {
		return n.wrongKind("overrideLimits", "an object of limits, keyed by family or toolchain")
	}
	for _, m := range n.members {
		limits, err := partialLimits(m.value, join("overrideLimits", m.key))
		if err != nil {
			return err
		}
		d.overrides = append(d.overrides, writtenOverride{name: m.key, limits: limits})
	}
	return nil
}

// partialLimits reads an object whose two members may be absent or null.
func partialLimits(n *node, key string) (writtenLimits, error) {
	var limits writtenLimits
	if err := n.object(key, "timeMs", "memoryBytes"); err != nil {
		return limits, err
	}
	var err error
	if limits.time, err = optionalNumber(n, key, "timeMs", math.MaxUint64); err != nil {
		return limits, err
	}
	limits.memory, err = optionalNumber(n, key, "memoryBytes", math.MaxUint64)
	return limits, err
}

func optionalNumber(n *node, key, name string, most uint64) (written, error) {
	value := n.member(name)
	if value == nil || value.kind == nullKind {
		return written{}, nil
	}
	number, err := value.unsigned(join(key, name), most)
	return written{set: true, value: number, at: value.at, key: join(key, name)}, err
}

func (d *document) readLanguages(root *node) (err error) {
	if n := root.member("languages"); n != nil {
		if d.languages, err = texts(n, "languages"); err != nil {
			return err
		}
	}
	if n := root.member("extraCompilationFiles"); n != nil {
		d.extra, err = texts(n, "extraCompilationFiles")
	}
	return err
}

func texts(n *node, key string) ([]string, error) {
	items, err := n.list(key, "texts")
	if err != nil {
		return nil, err
	}
	var list []string
	for i, item := range items {
		text, err := item.textValue(index(key, i))
		if err != nil {
			return nil, err
		}
		list = append(list, text)
	}
	return list, nil
}

func (d *document) readGroups(root *node) error {
	n, err := root.required("", "groups", "a list of groups")
	if err != nil {
		return err
	}
	items, err := n.list("groups", "groups")
	if err != nil {
		return err
	}
	d.groupsAt = n.at
	for i, item := range items {
		group, err := readGroup(item, index("groups", i))
		if err != nil {
			return err
		}
		d.groups = append(d.groups, group)
	}
	return nil
}

func readGroup(n *node, key string) (writtenGroup, error) {
	g := writtenGroup{at: n.at, key: key}
	if err := n.object(key, "group", "points", "examples", "limits", "tests"); err != nil {
		return g, err
	}
	for _, field := range []struct {
		name string
		into *uint32
	}{{"group", &g.number}, {"points", &g.points}} {
		value, err := n.required(key, field.name, "a whole number")
		if err != nil {
			return g, err
		}
		number, err := value.unsigned(join(key, field.name), math.MaxUint32)
		if err != nil {
			return g, err
		}
		*field.into = uint32(number)
	}
	var err error
	if value := n.member("examples"); value != nil {
		if g.examples, err = value.boolValue(join(key, "examples")); err != nil {
			return g, err
		}
	}
	if value := n.member("limits"); value != nil && value.kind != nullKind {
		if g.limits, err = partialLimits(value, join(key, "limits")); err != nil {
			return g, err
		}
	}
	g.tests, err = optionalNumber(n, key, "tests", math.MaxUint32)
	return g, err
}

func (d *document) readPrograms(root *node) error {
	var err error
	if d.checker, err = optionalSource(root, "checker"); err != nil {
		return err
	}
	if d.interactor, err = optionalSource(root, "interactor"); err != nil {
		return err
	}
	single, err := optionalSource(root, "modelSolution")
	if err != nil {
		return err
	}
	if single != nil {
		d.models = append(d.models, *single)
	}
	n := root.member("modelSolutions")
	if n == nil {
		return nil
	}
	items, err := n.list("modelSolutions", "objects with source and language")
	if err != nil {
		return err
	}
	for i, item := range items {
		source, err := readSource(item, index("modelSolutions", i))
		if err != nil {
			return err
		}
		d.models = append(d.models, *source)
	}
	return nil
}

func optionalSource(root *node, name string) (*writtenSource, error) {
	n := root.member(name)
	if n == nil || n.kind == nullKind {
		return nil, nil
	}
	return readSource(n, name)
}

func readSource(n *node, key string) (*writtenSource, error) {
	if err := n.object(key, "source", "language"); err != nil {
		return nil, err
	}
	source := &writtenSource{key: join(key, "source")}
	for _, field := range []struct {
		name, expected string
		into           *string
	}{
		{"source", "a path inside the package", &source.path},
		{"language", "a toolchain id or alias", &source.language},
	} {
		value, err := n.required(key, field.name, field.expected)
		if err != nil {
			return nil, err
		}
		if *field.into, err = value.textValue(join(key, field.name)); err != nil {
			return nil, err
		}
		if field.name == "source" {
			source.at = value.at
		}
	}
	return source, nil
}

package problem

import "math"

func (d *document) readCalibration(root *node) error {
	n := root.member("calibration")
	if n == nil || n.kind == nullKind {
		return nil
	}
	if err := n.object("calibration", "time", "memory", "measured", "at", "runner"); err != nil {
		return err
	}
	for _, field := range []struct {
		name string
		into *Rule
	}{{"time", &d.calibration.Time}, {"memory", &d.calibration.Memory}} {
		value := n.member(field.name)
		if value == nil || value.kind == nullKind {
			continue
		}
		rule, err := readRule(value, join("calibration", field.name))
		if err != nil {
			return err
		}
		*field.into = rule
	}
	for _, field := range []struct {
		name string
		into *string
	}{{"at", &d.calibration.At}, {"runner", &d.calibration.Runner}} {
		var err error
		if *field.into, err = optionalText(n, "calibration", field.name); err != nil {
			return err
		}
	}
	return d.readMeasured(n)
}

// readRule reads a rule that is present. Its missing members are neutral, not those of the default rule.
func readRule(n *node, key string) (Rule, error) {
	rule := Rule{Factor: 1}
	if err := n.object(key, "factor", "add", "roundTo"); err != nil {
		return rule, err
	}
	for _, field := range []struct {
		name string
		into *float64
	}{{"factor", &rule.Factor}, {"add", &rule.Add}, {"roundTo", &rule.RoundTo}} {
		value := n.member(field.name)
		if value == nil {
			continue
		}
		var err error
		if *field.into, err = value.number(join(key, field.name)); err != nil {
			return rule, err
		}
	}
	return rule, nil
}

func (d *document) readMeasured(n *node) error {
	value := n.member("measured")
	if value == nil {
		return nil
	}
	items, err := value.list("calibration.measured", "measurements")
	if err != nil {
		return err
	}
	for i, item := range items {
		key := index("calibration.measured", i)
		if err := item.object(key, "group", "language", "timeMs", "memoryBytes"); err != nil {
			return err
		}
		group, err := item.required(key, "group", "a whole number")
		if err != nil {
			return err
		}
		number, err := group.unsigned(join(key, "group"), math.MaxUint32)
		if err != nil {
			return err
		}
		time, err := item.required(key, "timeMs", "a whole number")
		if err != nil {
			return err
		}
		spent, err := time.unsigned(join(key, "timeMs"), math.MaxUint64)
		if err != nil {
			return err
		}
		memory, err := optionalNumber(item, key, "memoryBytes", math.MaxUint64)
		if err != nil {
			return err
		}
		language, err := optionalText(item, key, "language")
		if err != nil {
			return err
		}
		d.calibration.Measured = append(d.calibration.Measured, Measured{
			Group: uint32(number), Language: language, Time: millis(spent), Memory: bytesOf(memory.value),
		})
	}
	return nil
}

func optionalText(n *node, key, name string) (string, error) {
	value := n.member(name)
	if value == nil || value.kind == nullKind {
		return "", nil
	}
	return value.textValue(join(key, name))
}

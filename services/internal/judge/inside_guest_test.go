//go:build guest

package judge

import "github.com/evalhost/evalhost/checks/guest/inside"

func init() { inside.Demand() }

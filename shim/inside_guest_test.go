//go:build guest

package main

import "github.com/evalhost/evalhost/checks/guest/inside"

func init() { inside.Demand() }

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// bench is what a section needs, and where it puts its figures.
type bench struct {
	opt         options
	redisServer string
	report      *report
}

// section is one part of the report.
type section struct {
	name    string
	measure func(ctx context.Context, b bench) error
}

// sections are all, in the order in which they are measured.
func sections() []section {
	return []section{
		{"refusals", func(ctx context.Context, b bench) (err error) {
			b.report.refusals, err = measureRefusals(ctx, b.opt)
			return err
		}},
		{"reserves", func(ctx context.Context, b bench) (err error) {
			b.report.reserves, err = measureReserves(ctx, b.opt, b.redisServer)
			return err
		}},
		{"stock", func(ctx context.Context, b bench) (err error) {
			b.report.stock, err = measureStock(ctx, b.opt, b.redisServer)
			return err
		}},
		{"lone", func(ctx context.Context, b bench) (err error) {
			b.report.lone, err = measureLone(ctx, b.redisServer)
			return err
		}},
		{"neighbour", func(ctx context.Context, b bench) (err error) {
			b.report.neighbour, err = measureNeighbour(ctx, b.opt, b.redisServer)
			return err
		}},
		{"soldout", func(ctx context.Context, b bench) (err error) {
			b.report.soldOut, err = measureSoldOut(ctx, b.opt, b.redisServer)
			return err
		}},
		{"memory", func(ctx context.Context, b bench) (err error) {
			b.report.memory, err = measureMemory(ctx, b.redisServer)
			return err
		}},
		{"masters", func(ctx context.Context, b bench) (err error) {
			b.report.masters, err = measureMasters(ctx)
			return err
		}},
		{"faults", func(ctx context.Context, b bench) (err error) {
			b.report.faults, err = measureFaults(ctx, b.opt)
			return err
		}},
	}
}

func sectionNames() []string {
	var names []string
	for _, s := range sections() {
		names = append(names, s.name)
	}
	return names
}

// choose reads -only; nothing means all.
func choose(only string) ([]section, error) {
	all := sections()
	if only == "" {
		return all, nil
	}
	names := strings.Split(only, ",")
	for _, n := range names {
		if !slices.Contains(sectionNames(), n) {
			return nil, fmt.Errorf("-only %s: no such section; there are %s", n, strings.Join(sectionNames(), ", "))
		}
	}
	return slices.DeleteFunc(all, func(s section) bool { return !slices.Contains(names, s.name) }), nil
}

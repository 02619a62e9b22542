package archive

import (
	"context"
	"errors"
	"fmt"

	"weir/inventory"
)

const (
	// maxReturnWalks bounds how often one pass looks for returned units first.
	maxReturnWalks = 8
	maxRefused     = 8 // ids named
)

// pass is one walk over a sale's ledger.
type pass struct {
	c        *Copier
	sale     inventory.Sale
	slice    []inventory.Reservation
	done     Copied
	refused  int64 // reservations that the archive did not take
	walks    int   // for returned units
	oversold bool  // looking for returned units has not helped
}

func (c *Copier) copy(ctx context.Context, v inventory.View) (Copied, error) {
	began := c.config.Now()
	p := &pass{c: c, sale: v.Sale, done: Copied{Sale: v.Sale.ID}, slice: make([]inventory.Reservation, 0, inventory.ArchiveSlice)}
	err := p.run(ctx)
	p.done.Took = c.config.Now().Sub(began)
	return p.done, err
}

func (p *pass) run(ctx context.Context) error {
	var err error
	if p.done.Level, err = p.c.config.Source.Level(ctx, p.sale.ID); err != nil {
		return fmt.Errorf("copying sale %s: %w", p.sale.ID, err)
	}
	err = p.c.config.Source.Ledger(ctx, p.sale.ID, func(r inventory.Reservation) error {
		p.slice = append(p.slice, r)
		if r.State == inventory.Reserved {
			p.done.Open++
		}
		if len(p.slice) < inventory.ArchiveSlice {
			return nil
		}
		return p.flush(ctx)
	})
	if err == nil {
		err = p.flush(ctx) // also of no rows: the plan itself is archived
	}
	if err == nil && p.refused > 0 {
		err = fmt.Errorf("%d reservations are beyond its total: %w", p.refused, inventory.ErrOversold)
	}
	if err == nil {
		err = p.judge(ctx)
	}
	if err != nil {
		return fmt.Errorf("copying sale %s: %w", p.sale.ID, err)
	}
	return nil
}

func (p *pass) flush(ctx context.Context) error {
	err := p.save(ctx, p.slice)
	if errors.Is(err, inventory.ErrOversold) && !p.oversold {
		err = p.returnsFirst(ctx)
	}
	if errors.Is(err, inventory.ErrOversold) && len(p.slice) > 0 {
		p.oversold = true
		err = p.oneByOne(ctx)
	} else if err == nil {
		p.done.Rows += int64(len(p.slice))
	}
	p.slice = p.slice[:0]
	return err
}

func (p *pass) save(ctx context.Context, rows []inventory.Reservation) error {
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	return p.c.config.Archive.Save(ctx, p.sale, rows)
}

// returnsFirst saves the slice again after all returned units. A walk has no
// order: it may bring the second buyer of a returned unit before the news that
// the first gave it back, and the archive then counts both. Whatever made room
// for this slice had been returned before it was read, so this walk finds it.
func (p *pass) returnsFirst(ctx context.Context) error {
	if p.walks++; p.walks > maxReturnWalks {
		return inventory.ErrOversold
	}
	back := make([]inventory.Reservation, 0, inventory.ArchiveSlice)
	flush := func() error {
		err := p.save(ctx, back)
		back = back[:0]
		return err
	}
	err := p.c.config.Source.Ledger(ctx, p.sale.ID, func(r inventory.Reservation) error {
		if r.State != inventory.Returned {
			return nil
		}
		if back = append(back, r); len(back) < inventory.ArchiveSlice {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return err
	}
	return p.save(ctx, p.slice)
}

// oneByOne stores all of an oversold slice but what is too much, and names it.
func (p *pass) oneByOne(ctx context.Context) error {
	for i := range p.slice {
		err := p.save(ctx, p.slice[i:i+1])
		switch {
		case err == nil:
			p.done.Rows++
		case !errors.Is(err, inventory.ErrOversold):
			return err
		default:
			p.refused++
			if len(p.done.Refused) < maxRefused {
				p.done.Refused = append(p.done.Refused, p.slice[i].ID)
			}
		}
	}
	return nil
}

// judge says whether the pass is a whole and last copy.
func (p *pass) judge(ctx context.Context) error {
	after, err := p.c.config.Source.Level(ctx, p.sale.ID)
	if err != nil {
		return err
	}
	kept, err := p.c.config.Archive.Sale(ctx, p.sale.ID)
	if err != nil {
		return err
	}
	d := &p.done
	switch {
	case after.Seq != d.Level.Seq:
		d.Missing = "the ledger changed during the pass"
	case after.Reserved != 0 || d.Open != 0:
		d.Missing = fmt.Sprintf("%d units and %d reservations are still reserved", after.Reserved, d.Open)
	case after.OnLoan != 0:
		d.Missing = fmt.Sprintf("%d units are on loan between buckets", after.OnLoan)
	case kept.Sold != after.Confirmed:
		d.Missing = fmt.Sprintf("the archive has %d units sold, the ledger %d", kept.Sold, after.Confirmed)
	default:
		d.Complete = true
	}
	return nil
}

func unknownSale(sale string) error {
	return fmt.Errorf("sale %q: %w", sale, inventory.ErrUnknownSale)
}

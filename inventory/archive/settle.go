package archive

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"weir/inventory"
)

// Settle moves one reservation on after its keys in Redis are gone, see
// inventory.Archive. to is Confirmed, Released, Returned, or Reserved for an
// acceptance; what Store's Confirm, Release and Accept answer for a state and an
// attempt is answered here too:
//
//	to         from reserved   expired         confirmed   others
//	reserved   accepted        ErrNotAllowed   stays       ErrNotAllowed
//	confirmed  confirmed *     confirmed * †   stays       refund_due stays, else ErrNotAllowed
//	released   released        ErrNotAllowed   ErrNotAllowed   released, returned, cancelled stay, refund_due ErrNotAllowed
//	returned   ErrNotAllowed   ErrNotAllowed   returned    returned stays, else ErrNotAllowed
//
// * refund_due when sold + quantity > total. † refund_due also when the buyer's
// limit is used up by others of his reservations. Both are answers, not errors:
// read the State. Errors: ErrNotAllowed and, for an attempt above 0 that is not
// the current one of an open reservation, ErrAttemptOver, beside the stored one;
// inventory.ErrUnknownReservation (no tombstone is left: after the sale nothing
// can come late).
func (d *DB) Settle(ctx context.Context, id string, to inventory.State, attempt int, shopOrder string) (inventory.Reservation, error) {
	var result inventory.Reservation
	err := d.transaction(ctx, func(tx *sql.Tx) error {
		r, err := d.find(ctx, tx, id)
		if err != nil {
			return err
		}
		// The sale's row first, as Save does, then again what it protects.
		sale, err := d.sale(ctx, tx, r.Sale, d.dialect.lockRow)
		if err != nil {
			return err
		}
		if r, err = d.find(ctx, tx, id); err != nil {
			return err
		}
		result = r
		if answered(r.State, to) {
			return nil
		}
		if !allowed(r.State, to) {
			return fmt.Errorf("archived reservation %s (%s) to %s: %w", id, r.State, to, inventory.ErrNotAllowed)
		}
		if attempt > 0 && attempt != r.Attempt && r.State != inventory.Confirmed {
			return fmt.Errorf("archived reservation %s: %w", id, inventory.ErrAttemptOver)
		}
		if to == inventory.Confirmed {
			if to, err = d.latePayment(ctx, tx, sale, r); err != nil {
				return err
			}
		}
		result = settled(r, to, shopOrder)
		if err := d.store(ctx, tx, []inventory.Reservation{result}); err != nil {
			return err
		}
		return d.count(ctx, tx, sale, units(result)-units(r))
	})
	return result, err
}

// answered: this was asked before, or its end was reached another way.
func answered(state, to inventory.State) bool {
	switch to {
	case inventory.Reserved:
		return state == inventory.Confirmed
	case inventory.Confirmed:
		return state == inventory.Confirmed || state == inventory.RefundDue
	case inventory.Released:
		return state == inventory.Released || state == inventory.Returned || state == inventory.Cancelled
	case inventory.Returned:
		return state == inventory.Returned
	}
	return false
}

// allowed is the one arrow.
func allowed(state, to inventory.State) bool {
	switch to {
	case inventory.Reserved:
		return state == inventory.Reserved
	case inventory.Confirmed:
		return state == inventory.Reserved || state == inventory.Expired
	case inventory.Released:
		return state == inventory.Reserved
	case inventory.Returned:
		return state == inventory.Confirmed
	}
	return false
}

// latePayment decides between confirmed and refund due.
func (d *DB) latePayment(ctx context.Context, tx *sql.Tx, sale saleRow, r inventory.Reservation) (inventory.State, error) {
	if sale.sold+r.Quantity > sale.total {
		return inventory.RefundDue, nil
	}
	if r.State != inventory.Expired || r.User == "" || sale.plan.BuyerLimit == 0 {
		return inventory.Confirmed, nil
	}
	var held sql.NullInt64
	err := tx.QueryRowContext(ctx, d.dialect.text(`SELECT CAST(sum(quantity) AS BIGINT) FROM reservations
		WHERE sale = $1 AND usr = $2 AND state IN ($3, $4)`),
		r.Sale, toText(r.User), string(inventory.Reserved), string(inventory.Confirmed)).Scan(&held)
	if err != nil {
		return "", unavailable(err)
	}
	if held.Int64+r.Quantity > sale.plan.BuyerLimit {
		return inventory.RefundDue, nil
	}
	return inventory.Confirmed, nil
}

func settled(r inventory.Reservation, to inventory.State, shopOrder string) inventory.Reservation {
	r.State, r.AttemptUntil, r.Stuck = to, time.Time{}, false
	if shopOrder != "" {
		r.ShopOrder = shopOrder
	}
	return r
}

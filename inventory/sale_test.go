package inventory

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func planned() Sale {
	return Sale{
		ID: "demo", Version: 1, Item: "1001", StartAt: time.Unix(1000, 0), EndAt: time.Unix(2000, 0), Total: 100,
		MaxQuantity: 5, Hold: time.Minute, Expiry: ExpiryFree, Settle: SettlePayment,
	}
}

func TestValidate_RejectsIncompleteSale(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Sale)
		field  string
	}{
		"empty id":            {func(s *Sale) { s.ID = "" }, "id"},
		"brace in the id":     {func(s *Sale) { s.ID = "a{b}c" }, "id"},
		"newline after id":    {func(s *Sale) { s.ID = "demo\n" }, "id"},
		"end at the start":    {func(s *Sale) { s.EndAt = s.StartAt }, "ends_at"},
		"end before start":    {func(s *Sale) { s.EndAt = time.Unix(999, 0) }, "ends_at"},
		"no end":              {func(s *Sale) { s.EndAt = time.Time{} }, "ends_at"},
		"negative stock":      {func(s *Sale) { s.Total = -1 }, "total"},
		"no version":          {func(s *Sale) { s.Version = 0 }, "version"},
		"item with a slash":   {func(s *Sale) { s.Item = "a/b" }, "item"},
		"no units per order":  {func(s *Sale) { s.MaxQuantity = 0 }, "max_quantity"},
		"negative limit":      {func(s *Sale) { s.BuyerLimit = -1 }, "buyer_limit"},
		"no hold":             {func(s *Sale) { s.Hold = 0 }, "hold"},
		"hold of half a ms":   {func(s *Sale) { s.Hold = 1500 * time.Microsecond }, "hold"},
		"unknown expiry":      {func(s *Sale) { s.Expiry = "never" }, "expiry"},
		"unknown settle":      {func(s *Sale) { s.Settle = "later" }, "settle"},
		"negative safety":     {func(s *Sale) { s.SafetyStock = -1 }, "safety_stock"},
		"negative bucket cap": {func(s *Sale) { s.BucketCap = -1 }, "bucket_cap"},
	} {
		t.Run(name, func(t *testing.T) {
			s := planned()
			c.change(&s)
			err := s.Validate()
			if !errors.Is(err, ErrInvalidSale) || !strings.Contains(err.Error(), c.field+":") {
				t.Fatalf("got %v, want ErrInvalidSale naming %s", err, c.field)
			}
			if _, err := s.StateAt(time.Unix(1500, 0)); !errors.Is(err, ErrInvalidSale) {
				t.Fatalf("StateAt of an invalid sale: %v", err)
			}
		})
	}
	if err := planned().Validate(); err != nil {
		t.Fatalf("a whole plan is refused: %v", err)
	}
}

func TestValidate_ReportsAllFaultsAtOnce(t *testing.T) {
	err := Sale{}.Validate()
	for _, field := range []string{"id:", "version:", "item:", "ends_at:", "max_quantity:", "hold:", "expiry:", "settle:"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not reported in: %v", field, err)
		}
	}
}

func TestState_Boundaries(t *testing.T) {
	for second, want := range map[int64]SaleState{
		999: SalePending, 1000: SaleRunning, 1999: SaleRunning, 2000: SaleEnded, 3000: SaleEnded,
	} {
		got, err := planned().StateAt(time.Unix(second, 0))
		if err != nil || got != want {
			t.Errorf("at %d: %s, %v; want %s", second, got, err, want)
		}
	}
	last := time.Unix(2000, 0).Add(-time.Millisecond)
	if got, _ := planned().StateAt(last); got != SaleRunning {
		t.Errorf("a millisecond before the end: %s", got)
	}
}

func TestViewState_LaysTheOperatorsWishOver(t *testing.T) {
	at := func(d Desired, second int64) SaleState {
		return View{Sale: planned(), Desired: d}.StateAt(time.Unix(second, 0))
	}
	for _, c := range []struct {
		d    Desired
		at   int64
		want SaleState
	}{
		{DesiredOn, 999, SalePending}, {DesiredOn, 1500, SaleRunning}, {DesiredOn, 2000, SaleEnded},
		{DesiredPaused, 1500, SalePaused}, {DesiredPaused, 2000, SaleEnded},
		{DesiredCancelled, 999, SaleCancelled}, {DesiredCancelled, 2500, SaleCancelled},
	} {
		if got := at(c.d, c.at); got != c.want {
			t.Errorf("%s at %d: %s, want %s", c.d, c.at, got, c.want)
		}
	}
}

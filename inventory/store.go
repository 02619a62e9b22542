package inventory

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
)

// Config wires a Store.
type Config struct {
	// Redis must be made with MaxRetries -1 and ContextTimeoutEnabled: a client
	// that repeats commands or ignores deadlines hides unknown outcomes.
	Redis redis.UniversalClient
	// Memory: the server is miniredis. It has no INFO and no restart to fence.
	Memory bool
	// Replica is this process's name in the logs.
	Replica string
	Log     *slog.Logger
	// Refresh is how often Run reads the views; 0 means 250 ms.
	Refresh time.Duration
}

var errTodo = errors.New("being written")

type Store struct{}

func New(Config) (*Store, error) { return nil, errTodo }

func (s *Store) Run(ctx context.Context) error     { return errTodo }
func (s *Store) Refresh(ctx context.Context) error { return errTodo }

func (s *Store) View(sale string) (View, bool)       { return View{}, false }
func (s *Store) ViewOfItem(item string) (View, bool) { return View{}, false }
func (s *Store) Views() []View                       { return nil }

func (s *Store) Preheat(ctx context.Context, sale Sale) (View, error) { return View{}, errTodo }
func (s *Store) SetDesired(ctx context.Context, sale string, d Desired) (View, error) {
	return View{}, errTodo
}

func (s *Store) Reserve(ctx context.Context, o Order) (Result, error) { return Result{}, errTodo }
func (s *Store) Accept(ctx context.Context, sale, id string, attempt int, shopOrder string) (Reservation, error) {
	return Reservation{}, errTodo
}
func (s *Store) Confirm(ctx context.Context, sale, id string, attempt int, shopOrder string) (Reservation, error) {
	return Reservation{}, errTodo
}
func (s *Store) Release(ctx context.Context, sale, id string, attempt int) (Reservation, error) {
	return Reservation{}, errTodo
}
func (s *Store) Expire(ctx context.Context, sale, id string) (Reservation, error) {
	return Reservation{}, errTodo
}
func (s *Store) MarkStuck(ctx context.Context, sale, id string) error { return errTodo }
func (s *Store) Find(ctx context.Context, id string) (Reservation, error) {
	return Reservation{}, errTodo
}

// Swept is what one sweep found.
type Swept struct {
	Freed int64         // units given back by due holds
	Ask   []Reservation // attempts that ran out unsettled: ask the shop
}

func (s *Store) Sweep(ctx context.Context, sale string) (Swept, error) { return Swept{}, errTodo }
func (s *Store) Level(ctx context.Context, sale string) (Level, error) { return Level{}, errTodo }

// Audit is the proof of the books.
type Audit struct {
	OK          bool
	Level       Level
	Differences []string
}

func (s *Store) Audit(ctx context.Context, sale string) (Audit, error) { return Audit{}, errTodo }
func (s *Store) Ledger(ctx context.Context, sale string, fn func(Reservation) error) error {
	return errTodo
}

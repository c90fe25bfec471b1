-- The example domain. A team that takes the engine into its own project leaves this one out.

CREATE TABLE "orders" (
    "id" TEXT NOT NULL,
    "sku" TEXT NOT NULL,
    "quantity" INTEGER NOT NULL,
    "note" TEXT,
    "placed_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "orders_pkey" PRIMARY KEY ("id"),
    CONSTRAINT "orders_quantity_positive" CHECK ("quantity" > 0)
);

CREATE TABLE "stock_balance" (
    "sku" TEXT NOT NULL,
    "available" INTEGER NOT NULL,

    CONSTRAINT "stock_balance_pkey" PRIMARY KEY ("sku"),
    CONSTRAINT "stock_balance_never_negative" CHECK ("available" >= 0)
);

COMMENT ON TABLE "orders" IS 'Orders as the API took them; each has one order.placed event.';
COMMENT ON TABLE "stock_balance" IS 'What is left of each SKU; the stock consumer takes from it.';

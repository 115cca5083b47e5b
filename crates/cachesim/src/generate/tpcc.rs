//! TPC-C (revision 5.11) by the pages its transactions touch, in the mix 45 new order, 43 payment, 4
//! order status, 4 delivery, 4 stock level.
//!
//! Rows have about the width of the specification's tables in PostgreSQL. Orders, their lines and new
//! orders go to the end of each district's region in their indexes and to the end of their heaps.
//! Customers are drawn by NURand(1023), by name in 60% of the cases (the name's index, then the middle
//! one of about three rows), items by NURand(8191). Stock of another warehouse is taken by 1% of the
//! lines, customers of another by 15% of the payments. Orders that are delivered or looked at are those
//! the trace has made; before there are any, the transaction searches the index alone.

use evenkeel_distribution::RandomStream;

use super::Steps;
use super::arguments::{Arguments, SpecError};
use super::database::{Classes, Heap, Queue, Region, Tree};
use crate::trace::Reference;

const DISTRICTS: u64 = 10;
const CUSTOMERS: u64 = 3_000;
const ITEMS: u64 = 100_000;
/// Customers that share a name, on average: 3,000 over 1,000 names.
const NAMESAKES: u64 = 3;
/// Orders whose lines stock level looks at.
const RECENT_ORDERS: u64 = 20;

/// See the module.
pub(super) struct TpcC {
    warehouses: u64,
    warehouse: Heap,
    warehouse_key: Tree,
    district: Heap,
    district_key: Tree,
    customer: Heap,
    customer_key: Tree,
    customer_name: Tree,
    history: Heap,
    item: Heap,
    item_key: Tree,
    stock: Heap,
    stock_key: Tree,
    orders: Heap,
    orders_key: Tree,
    orders_customer: Tree,
    new_order: Heap,
    new_order_key: Tree,
    order_line: Heap,
    order_line_key: Tree,
    /// By district of all warehouses.
    districts: Vec<District>,
    classes: Classes,
}

#[derive(Clone, Debug, Default)]
struct District {
    orders: Region,
    new_orders: Region,
    lines: Region,
    /// Orders in the heap that are not delivered: (order row, first line row, lines, new order row).
    open: std::collections::VecDeque<Order>,
    /// The last orders, delivered or not.
    recent: std::collections::VecDeque<Order>,
}

#[derive(Clone, Copy, Debug)]
struct Order {
    row: u64,
    new_order_row: u64,
    first_line: u64,
    lines: u64,
    customer: u64,
}

impl TpcC {
    pub(super) fn new(arguments: &mut Arguments) -> Result<Self, SpecError> {
        let warehouses = arguments.number("warehouses", 10, 1..=10_000)?;
        let mut classes = Classes::default();
        let names = &mut classes;
        let districts = warehouses * DISTRICTS;
        let customers = districts * CUSTOMERS;
        let stock = warehouses * ITEMS;
        Ok(Self {
            warehouses,
            warehouse: Heap::new(names, "warehouse", warehouses, 89, 100),
            warehouse_key: Tree::new(names, "warehouse_pkey", warehouses, 4),
            district: Heap::new(names, "district", districts, 95, 100),
            district_key: Tree::new(names, "district_pkey", districts, 8),
            customer: Heap::new(names, "customer", customers, 560, 100),
            customer_key: Tree::new(names, "customer_pkey", customers, 12),
            customer_name: Tree::new(names, "customer_name", customers, 40),
            history: Heap::new(names, "history", 0, 52, 100),
            item: Heap::new(names, "item", ITEMS, 82, 100),
            item_key: Tree::new(names, "item_pkey", ITEMS, 4),
            stock: Heap::new(names, "stock", stock, 306, 100),
            stock_key: Tree::new(names, "stock_pkey", stock, 8),
            orders: Heap::new(names, "orders", 0, 36, 100),
            orders_key: Tree::new(names, "orders_pkey", 0, 12),
            orders_customer: Tree::new(names, "orders_customer", customers, 16),
            new_order: Heap::new(names, "new_order", 0, 12, 100),
            new_order_key: Tree::new(names, "new_order_pkey", 0, 12),
            order_line: Heap::new(names, "order_line", 0, 64, 100),
            order_line_key: Tree::new(names, "order_line_pkey", 0, 16),
            districts: vec![District::default(); districts as usize],
            classes,
        })
    }

    /// NURand(A, 0, last) of clause 2.1.6 with C = 0.
    fn skewed(stream: &mut RandomStream, a: u64, last: u64) -> u64 {
        (stream.up_to(a) | stream.up_to(last)) % (last + 1)
    }

    /// A customer of a district, found by name or by number.
    fn find_customer(&self, district: u64, stream: &mut RandomStream, out: &mut Queue) -> u64 {
        let customer = district * CUSTOMERS + Self::skewed(stream, 1023, CUSTOMERS - 1);
        if stream.unit() < 0.6 {
            // Namesakes lie side by side in the name's index, their rows anywhere in the district.
            self.customer_name.scan(customer, NAMESAKES, out);
            for _ in 1..NAMESAKES {
                self.customer.read(district * CUSTOMERS + stream.up_to(CUSTOMERS - 1), out);
            }
        } else {
            self.customer_key.search(customer, out);
        }
        customer
    }

    fn new_order(&mut self, district: u64, stream: &mut RandomStream, out: &mut Queue) {
        let warehouse = district / DISTRICTS;
        self.warehouse_key.search(warehouse, out);
        self.warehouse.read(warehouse, out);
        self.district_key.search(district, out);
        self.district.write(district, out);
        let customer = district * CUSTOMERS + Self::skewed(stream, 1023, CUSTOMERS - 1);
        self.customer_key.search(customer, out);
        self.customer.read(customer, out);
        let Some(state) = self.districts.get_mut(district as usize) else { return };
        let row = self.orders.append(out);
        self.orders_key.extend(&mut state.orders, out);
        self.orders_customer.insert(customer, out);
        let new_order_row = self.new_order.append(out);
        self.new_order_key.extend(&mut state.new_orders, out);
        let lines = 5 + stream.up_to(10);
        let first_line = self.order_line.rows();
        for _ in 0..lines {
            let item = Self::skewed(stream, 8191, ITEMS - 1);
            self.item_key.search(item, out);
            self.item.read(item, out);
            let supplier = if self.warehouses > 1 && stream.unit() < 0.01 {
                let other = stream.up_to(self.warehouses - 2);
                other + u64::from(other >= warehouse)
            } else {
                warehouse
            };
            let stock = supplier * ITEMS + item;
            self.stock_key.search(stock, out);
            self.stock.write(stock, out);
            self.order_line.append(out);
            self.order_line_key.extend(&mut state.lines, out);
        }
        let order = Order { row, new_order_row, first_line, lines, customer };
        state.open.push_back(order);
        state.recent.push_back(order);
        if state.recent.len() as u64 > RECENT_ORDERS {
            state.recent.pop_front();
        }
    }

    fn payment(&mut self, district: u64, stream: &mut RandomStream, out: &mut Queue) {
        let warehouse = district / DISTRICTS;
        self.warehouse_key.search(warehouse, out);
        self.warehouse.write(warehouse, out);
        self.district_key.search(district, out);
        self.district.write(district, out);
        let home = if stream.unit() < 0.15 {
            stream.up_to(self.warehouses * DISTRICTS - 1)
        } else {
            district
        };
        let customer = self.find_customer(home, stream, out);
        self.customer.write(customer, out);
        self.history.append(out);
    }

    fn order_status(&mut self, district: u64, stream: &mut RandomStream, out: &mut Queue) {
        let customer = self.find_customer(district, stream, out);
        self.customer.read(customer, out);
        self.orders_customer.search(customer, out);
        let Some(state) = self.districts.get(district as usize) else { return };
        if let Some(order) = state.recent.back() {
            self.orders.read(order.row, out);
            self.order_line_key.search_end(state.lines, out);
            for line in 0..order.lines {
                self.order_line.read(order.first_line + line, out);
            }
        }
    }

    fn delivery(&mut self, warehouse: u64, out: &mut Queue) {
        for district in warehouse * DISTRICTS..(warehouse + 1) * DISTRICTS {
            let Some(state) = self.districts.get_mut(district as usize) else { return };
            self.new_order_key.search_end(state.new_orders, out);
            let Some(order) = state.open.pop_front() else { continue };
            self.new_order.write(order.new_order_row, out);
            self.orders_key.search_end(state.orders, out);
            self.orders.write(order.row, out);
            self.order_line_key.search_end(state.lines, out);
            for line in 0..order.lines {
                self.order_line.write(order.first_line + line, out);
            }
            self.customer_key.search(order.customer, out);
            self.customer.write(order.customer, out);
        }
    }

    fn stock_level(&mut self, district: u64, stream: &mut RandomStream, out: &mut Queue) {
        self.district_key.search(district, out);
        self.district.read(district, out);
        let warehouse = district / DISTRICTS;
        let Some(state) = self.districts.get(district as usize) else { return };
        self.order_line_key.search_end(state.lines, out);
        for order in &state.recent {
            for line in 0..order.lines {
                self.order_line.read(order.first_line + line, out);
                let stock = warehouse * ITEMS + Self::skewed(stream, 8191, ITEMS - 1);
                self.stock_key.search(stock, out);
                self.stock.read(stock, out);
            }
        }
    }
}

impl Steps for TpcC {
    fn step(&mut self, stream: &mut RandomStream, out: &mut std::collections::VecDeque<Reference>) {
        let district = stream.up_to(self.warehouses * DISTRICTS - 1);
        match stream.up_to(99) {
            0..45 => self.new_order(district, stream, out),
            45..88 => self.payment(district, stream, out),
            88..92 => self.order_status(district, stream, out),
            92..96 => self.delivery(district / DISTRICTS, out),
            _ => self.stock_level(district, stream, out),
        }
    }

    fn classes(&self) -> &[String] {
        &self.classes.names
    }
}

//! What stands in the tree agrees with itself: documents, generated pages, recorded corpora, layers, licences.

mod arena_documents;
mod arguments;
mod corpus;
mod decoders;
mod docs;
mod fuzz_corpus;
mod generated;
mod layers;
mod supply_chain;

@main enum S { static func main() {} }
